// Before the page is drawn: the theme that the reader has chosen in this browser.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing has the system's theme */ }
