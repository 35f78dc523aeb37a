// What pages do beyond HTML. Without scripts everything works but for updates without a reload, and the keys.
"use strict";

// What takes the server seconds is fetched once the page is there.
for (const part of document.querySelectorAll("[data-later]")) {
  part.setAttribute("aria-busy", "true");
  fetchPart(part, part.dataset.later).then((now) => {
    if (now) part.replaceChildren(...now.childNodes);
  }).finally(() => part.removeAttribute("aria-busy"));
}

// fetchPart gets the part of a page that has the ID of one that is shown.
async function fetchPart(part, from) {
  const answer = await fetch(from, {headers: {"X-Part": part.id}});
  if (answer.redirected || !answer.ok) return undefined;
  return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
}

// A part of the page that is named is fetched again when its stream says that something has changed; what the reader has focused stays until the focus
// goes elsewhere.
for (const part of document.querySelectorAll("[data-live]")) {
  const stream = new EventSource(part.dataset.live);
  let busy = false, again = false, stale = false;
  const renew = async () => {
    again = true;
    if (busy) return;
    busy = true;
    try {
      while (again) {
        again = false;
        const now = await fetchPart(part, location.href);
        if (!now) return;
        stale = part.contains(document.activeElement);
        if (!stale) part.replaceChildren(...now.childNodes);
      }
    } finally {
      busy = false;
    }
  };
  stream.addEventListener("change", renew);
  stream.addEventListener("end", () => { stream.close(); renew(); });
  part.addEventListener("focusout", (e) => { if (stale && !part.contains(e.relatedTarget)) setTimeout(renew); });
}

// Keys: / goes to the filter, g and a letter to a page, ? shows them, j and k walk the rows.
let before = "";
const rows = () => [...document.querySelectorAll("tbody tr[tabindex]")];
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const was = before;
  before = e.key;
  if (was === "g") {
    const to = document.querySelector(`nav a[data-key="${CSS.escape(e.key)}"]`);
    if (to) { e.preventDefault(); to.click(); }
    return;
  }
  if (e.key === "/") {
    const find = document.querySelector("input[type=search]");
    if (find) { e.preventDefault(); find.focus(); find.select(); }
  } else if (e.key === "?") {
    document.getElementById("keys")?.showModal();
  } else if (e.key === "j" || e.key === "k") {
    const all = rows(), at = all.indexOf(document.activeElement.closest("tr"));
    const next = all[at + (e.key === "j" ? 1 : -1)] ?? (at < 0 ? all[0] : undefined);
    if (next) { e.preventDefault(); next.focus(); }
  } else if (e.key === "Enter" && e.target.tagName === "TR") {
    e.target.querySelector("a")?.click();
  }
});

// The theme is the reader's: it is kept in this browser alone.
const theme = document.getElementById("theme");
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}
