// What pages do beyond HTML. Without scripts everything works but for updates without a reload, and the keys.
"use strict";

// What takes the server seconds is fetched once the page is there.
for (const part of document.querySelectorAll("[data-later]")) {
  const get = () => fetchPart(part, part.dataset.later).then((now) => {
    if (now) { part.replaceChildren(...now.childNodes); decorate(); }
  });
  part.setAttribute("aria-busy", "true");
  get().finally(() => part.removeAttribute("aria-busy"));
  const every = Number(part.dataset.every);
  if (every) setInterval(() => { // not while the reader uses it; a server that is gone has a line of its own
    if (!document.hidden && !part.matches(":hover, :focus-within")) get().catch(() => {});
  }, every * 1000);
}

// fetchPart gets the part of a page that has the ID of one that is shown.
async function fetchPart(part, from) {
  const answer = await fetch(from, {headers: {"X-Part": part.id}});
  if (answer.redirected || !answer.ok) return undefined;
  return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
}

// Parts of the page that name a stream are fetched again when it says that something has changed. One stream serves all parts, and none while the
// page is hidden: browsers open six connections to a host at most.
const parts = [...document.querySelectorAll("[data-live]")];
if (parts.length) {
  const silence = 30000; // the server says something every few seconds
  const note = document.getElementById("connection");
  const shown = new Map(parts.map((p) => [p, p.innerHTML]));
  const stale = new Set(); // parts that have changed while the reader was typing or selecting text in them
  let busy = false, again = false, over = false, tries = 0, stream, since, timer, alarm;

  const say = (text, word, href) => {
    if (note.textContent === (word ? text + " " + word : text)) return; // screen readers would repeat it
    note.textContent = text;
    if (!word) return;
    const a = document.createElement("a");
    a.href = href; a.textContent = word;
    note.append(" ", a);
  };
  const close = () => { stream?.close(); stream = undefined; clearTimeout(alarm); clearTimeout(timer); };
  const finish = (...words) => { over = true; close(); say(...words); };
  const lost = () => { // tries again after 1, 2, 4 … 30 seconds; of a short interruption the reader need not hear
    close();
    since ??= new Date().toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
    if (tries) say(`Not connected since ${since}. Trying again.`);
    timer = setTimeout(renew, Math.min(30, 2 ** tries++) * 1000);
  };
  const heard = () => { tries = 0; clearTimeout(alarm); alarm = setTimeout(lost, silence); };
  const open = () => {
    close();
    stream = new EventSource(parts[0].dataset.live); // it compares with what the page showed first
    stream.addEventListener("here", heard);
    stream.addEventListener("change", () => { heard(); renew(); });
    stream.addEventListener("end", () => { over = true; close(); renew(); });
    stream.addEventListener("error", lost);
    alarm = setTimeout(lost, silence);
  };
  const renew = async () => {
    again = true;
    if (busy) return;
    busy = true;
    try {
      while (again) {
        again = false;
        const answer = await fetch(location.href, {headers: {"X-Part": parts.map((p) => p.id).join(" ")}, signal: AbortSignal.timeout(silence)});
        if (answer.redirected) return finish("Your session has ended.", "Sign in", "/ui/login?to=" + encodeURIComponent(location.pathname + location.search));
        if (answer.status >= 500 || answer.status === 429) return lost();
        if (!answer.ok) return finish("This page does not update any more.", "Reload", location.href);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of parts) replace(part, page.getElementById(part.id));
      }
      since = undefined;
      say(stale.size ? "Updates wait while text is selected or a field is in use." : "");
      if (!stream && !over && !document.hidden) open();
    } catch {
      lost();
    } finally {
      busy = false;
    }
  };

  // replace renews a part. What the reader has scrolled and focused stays as it is.
  const replace = (part, now) => {
    stale.delete(part);
    if (!now || now.innerHTML === shown.get(part)) return;
    if (held(part)) { stale.add(part); return; }
    shown.set(part, now.innerHTML);
    const at = scrolls(part).map((e) => [e.scrollLeft, e.scrollTop]);
    const focused = part.contains(document.activeElement) ? document.activeElement : undefined;
    const nth = focused && alike(part, focused).indexOf(focused);
    part.replaceChildren(...now.childNodes);
    scrolls(part).forEach((e, i) => { if (at[i]) [e.scrollLeft, e.scrollTop] = at[i]; });
    decorate();
    if (focused) alike(part, focused)[nth]?.focus({preventScroll: true});
  };
  const scrolls = (part) => [...part.querySelectorAll(".scroll, pre")];
  const sign = (e) => [e.tagName, e.closest("tr")?.querySelector("a")?.href, e.getAttribute("href"), e.getAttribute("aria-label"), e.form?.action, /^(a|button)$/i.test(e.tagName) && e.textContent].join();
  const alike = (part, to) => [...part.querySelectorAll("a, button, summary, [tabindex]")].filter((e) => sign(e) === sign(to));
  const held = (part) => {
    const selection = getSelection(), e = document.activeElement;
    return part.contains(e) && /^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) || !selection.isCollapsed && part.contains(selection.anchorNode);
  };
  const resume = () => { if ([...stale].some((p) => !held(p))) renew(); };
  document.addEventListener("selectionchange", resume);
  for (const part of parts) part.addEventListener("focusout", () => setTimeout(resume));

  if (!document.hidden) open();
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else if (!over) open(); });
}

// A form that agrees to something is sent once, also by a double click.
document.addEventListener("submit", (e) => {
  if ("once" in e.target.dataset) setTimeout(() => { for (const b of e.target.querySelectorAll("button")) b.disabled = true; }); // the pressed one is sent, too
});
addEventListener("pageshow", (e) => { if (e.persisted) for (const b of document.querySelectorAll("form[data-once] button")) b.disabled = false; });

// Ages grow while a page is open.
const age = (s) => s < 1 ? "now" : s < 60 ? `${Math.floor(s)}s ago` : s < 3600 ? `${Math.floor(s / 60)} min ago` : s < 172800 ? `${Math.floor(s / 3600)} h ago` : `${Math.floor(s / 86400)} days ago`;
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
