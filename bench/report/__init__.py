"""`headrace-bench report`: every benchmark on one page."""
