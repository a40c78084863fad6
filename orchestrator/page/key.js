// The key, where the daemon asks for one: kept for this tab alone, and never in an address.

import { byId, text } from "./dom.js";

const PLACE = "headrace.key";
let asking = null;

export const key = () => sessionStorage.getItem(PLACE) ?? "";

// Resolves when there is a key to try, or at once if another one has been given since `tried` was sent.
export function askForKey(tried, why) {
  if (key() !== tried) return Promise.resolve();
  if (asking) return asking;
  sessionStorage.removeItem(PLACE);
  const dialog = byId("key-dialog");
  const form = byId("key-form");
  const input = byId("key-input");
  text(byId("key-why"), tried ? why : "Its data is shown to who has one.");
  asking = new Promise((resolve) => {
    const stay = (event) => event.preventDefault();
    const take = (event) => {
      event.preventDefault();
      const given = input.value.trim();
      if (!given) return;
      if (!/^[\x21-\x7e]+$/.test(given)) {
        text(byId("key-why"), "A key has no spaces and only plain letters, digits and signs.");
        return;
      }
      sessionStorage.setItem(PLACE, given);
      input.value = "";
      form.removeEventListener("submit", take);
      dialog.removeEventListener("cancel", stay);
      dialog.close();
      asking = null;
      resolve();
    };
    form.addEventListener("submit", take);
    dialog.addEventListener("cancel", stay);
    dialog.showModal();
    input.focus();
  });
  return asking;
}
