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

// Parts of the page that name a stream are fetched again when it says that something has changed; what the reader has focused stays until the focus
// goes elsewhere. One stream serves all parts, and none while the page is hidden: browsers open six connections to a host at most.
const parts = [...document.querySelectorAll("[data-live]")];
if (parts.length) {
  const stale = new Set();
  let busy = false, again = false, stream;
  const renew = async () => {
    again = true;
    if (busy) return;
    busy = true;
    try {
      while (again) {
        again = false;
        const answer = await fetch(location.href, {headers: {"X-Part": parts.map((p) => p.id).join(" ")}});
        if (answer.redirected || !answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of parts) {
          const now = page.getElementById(part.id);
          if (!now) continue;
          stale.delete(part);
          if (part.contains(document.activeElement)) stale.add(part); else part.replaceChildren(...now.childNodes);
        }
        decorate();
      }
    } finally {
      busy = false;
    }
  };
  const open = (at) => {
    stream = new EventSource(at);
    stream.addEventListener("change", renew);
    stream.addEventListener("end", () => { stream.close(); stream = undefined; renew(); });
  };
  if (!document.hidden) open(parts[0].dataset.live);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = undefined; }
    else if (!stream) open(parts[0].dataset.live); // it compares with what the page showed first
  });
  for (const part of parts) part.addEventListener("focusout", (e) => { if (stale.has(part) && !part.contains(e.relatedTarget)) setTimeout(renew); });
}

// Ages grow while a page is open.
const age = (s) => s < 1 ? "now" : s < 60 ? `${Math.floor(s)}s ago` : s < 3600 ? `${Math.floor(s / 60)}m${Math.floor(s % 60)}s ago` : s < 172800 ? `${Math.floor(s / 3600)}h${Math.floor(s % 3600 / 60)}m ago` : `${Math.floor(s / 86400)} days ago`;
setInterval(() => {
  for (const t of document.querySelectorAll("time[datetime]")) {
    const s = (Date.now() - Date.parse(t.dateTime)) / 1000;
    if (s >= 0 && !t.textContent.startsWith("in ")) t.textContent = age(s);
  }
}, 10000);

// What is worth copying has a button.
function decorate() {
  for (const code of document.querySelectorAll("code.copy")) {
    if (code.nextElementSibling?.className === "copies" || !code.textContent || !navigator.clipboard) continue;
    const b = document.createElement("button");
    b.type = "button"; b.className = "copies"; b.textContent = "copy"; b.setAttribute("aria-label", "Copy " + code.textContent);
    b.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => { b.textContent = "copied"; }));
    code.after(b);
  }
}
decorate();

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
