// The little that is needed to keep a page up to date without rebuilding it under its reader.
// Text goes in as text: there is no way here by which a string could become markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export function text(node, words) {
  const said = String(words);
  if (node.textContent !== said) node.textContent = said;
  return node;
}

export function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

export function shown(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

const kept = new WeakMap();

// Makes the children of `parent` be those of `items`, in their order: what is there already stays, with its focus.
export function patch(parent, items, keyOf, make, update) {
  const before = kept.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key)) continue;
    const node = before.get(key) ?? make(item);
    now.set(key, node);
    update?.(node, item);
  }
  for (const [key, node] of before) {
    if (!now.has(key)) node.remove();
  }
  place(parent, [...now.values()]);
  kept.set(parent, now);
}

function place(parent, nodes) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let at = parent.firstChild;
  for (const node of nodes) {
    if (node === at) {
      at = at.nextSibling;
    } else if (node.parentNode === parent && parent.moveBefore) {
      parent.moveBefore(node, at);
    } else {
      parent.insertBefore(node, at);
    }
  }
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

// What scrolls sideways can be reached with the keyboard for that; what need not scroll is no stop on its way.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const frame = target.closest(".scroll");
    attribute(frame, "tabindex", frame.scrollWidth > frame.clientWidth ? "0" : null);
  }
});

export function scrolls(frame) {
  sizes.observe(frame);
  sizes.observe(frame.firstElementChild);
}

// A table row whose cells are made once: `cells` are [name, is a heading, class].
export function row(cells) {
  const line = el("tr");
  line.cells_ = {};
  for (const [name, kind] of cells) {
    const cell = kind === "th" ? el("th", { scope: "row" }) : el("td", { class: kind || undefined });
    line.cells_[name] = cell;
    line.append(cell);
  }
  return line;
}

// Fills a table's body, and shows it or what stands in its place.
export function table(id, items, keyOf, make, update) {
  const whole = byId(`${id}-table`);
  patch(whole.tBodies[0], items, keyOf, make, update);
  shown(whole, items.length > 0);
  shown(whole.parentNode, items.length > 0);
  const none = byId(`${id}-none`);
  if (none) shown(none, items.length === 0);
}

// A bar of parts of 1, with its words beside it, since neither colour nor length says it to everybody.
export function bar(parts, words, { mark = null, level = "" } = {}) {
  const node = el("span", { class: "meter" }, el("span", { class: "bar", "aria-hidden": "true" }), el("span", { class: "words" }));
  setBar(node, parts, words, { mark, level });
  return node;
}

export function setBar(node, parts, words, { mark = null, level = "" } = {}) {
  const track = node.firstChild;
  attribute(track, "class", `bar ${level}`.trim());
  const wanted = [...parts.map(([kind, part]) => [kind, part]), ...(mark === null ? [] : [["mark", mark]])];
  while (track.children.length > wanted.length) track.lastChild.remove();
  while (track.children.length < wanted.length) track.append(el("i"));
  let left = 0;
  wanted.forEach(([kind, part], index) => {
    const piece = track.children[index];
    const width = Math.max(0, Math.min(1, Number.isFinite(part) ? part : 0));
    attribute(piece, "class", kind);
    if (kind === "mark") {
      piece.style.left = `${(width * 100).toFixed(2)}%`;
    } else {
      const size = Math.min(width, 1 - left);
      piece.style.left = `${(left * 100).toFixed(2)}%`;
      piece.style.width = `${(size * 100).toFixed(2)}%`;
      left += size;
    }
  });
  text(node.lastChild, words);
}

// A bar in a cell, made once and then kept up.
export function cellBar(cell, parts, words, more) {
  if (cell.firstElementChild?.classList.contains("meter")) setBar(cell.firstElementChild, parts, words, more);
  else cell.replaceChildren(bar(parts, words, more));
}

// A sign and a word, so that colour is never the only one to say it.
export function badge(node, kind, sign, words) {
  attribute(node, "class", `badge ${kind}`);
  text(node, `${sign} ${words}`);
}

export function cellBadge(cell, kind, sign, words) {
  if (!cell.firstElementChild) cell.replaceChildren(el("span"));
  badge(cell.firstElementChild, kind, sign, words);
}

export function link(cell, href, words) {
  let anchor = cell.firstElementChild;
  if (!anchor) cell.append((anchor = el("a")));
  attribute(anchor, "href", href);
  text(anchor, words);
}
