// Reads values off the charts, by pointer or by the arrow keys. The lines are the server's: without this script, the tables have the values.
"use strict";
{
  const left = 58, right = 418, top = 8, bottom = 148; // of the drawing, as in internal/web/charts
  const three = (v) => v >= 1000 || Number.isInteger(v) ? String(Math.round(v)) : String(Number(v.toPrecision(3)));
  const scaled = (v, k, units) => { let i = 0; while (v >= k && i < units.length - 1) { v /= k; i++; } return three(v) + " " + units[i]; };
  const text = {
    "ratio": (v) => (v < .1 ? Number((100 * v).toPrecision(2)) : Math.round(100 * v)) + " %", "count": three, "seconds": (v) => v < 1 ? three(1000 * v) + " ms" : three(v) + " s",
    "bytes": (v) => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]), "bytes/s": (v) => scaled(v, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]),
    "requests/s": (v) => scaled(v, 1000, ["/s", "k/s", "M/s"]),
  };

  // show marks the i-th value of a chart and prints it.
  const show = (chart, i) => {
    const d = chart.dataset, n = Number(d.points), svg = chart.querySelector("svg");
    let mark = svg.querySelector(".mark"), said = chart.querySelector("output");
    if (!mark) {
      mark = svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
      mark.setAttribute("class", "mark");
    }
    if (!said) said = chart.querySelector(".plot").appendChild(document.createElement("output"));
    i = Math.min(Math.max(i, 0), n);
    chart.dataset.at = i;
    const x = left + (right - left) * i / n;
    for (const [name, value] of [["x1", x], ["x2", x], ["y1", top], ["y2", bottom]]) mark.setAttribute(name, value);
    const at = new Date(1000 * (Number(d.from) + (Number(d.to) - Number(d.from)) * i / n)).toISOString();
    const names = [...chart.querySelectorAll("tbody th")].map((e) => e.textContent);
    const values = [...svg.querySelectorAll("path.line")].map((line, k) => {
      const point = [...line.getAttribute("d").matchAll(/([\d.]+),([\d.]+)/g)].find((p) => Math.abs(p[1] - x) < 1);
      return names[k] + " " + (point ? text[d.unit](Number(d.max) * (bottom - point[2]) / (bottom - top)) : "–");
    });
    said.textContent = at.slice(0, 10) + " " + at.slice(11, 16) + " UTC: " + values.join(", ");
  };
  const hide = (chart) => {
    chart.querySelector(".mark")?.remove();
    chart.querySelector("output")?.remove();
    delete chart.dataset.at;
  };

  document.addEventListener("pointermove", (e) => {
    const svg = e.target.closest?.(".plot svg");
    for (const chart of document.querySelectorAll("figure.chart[data-at]")) if (!chart.contains(svg) && !chart.matches(":focus-within")) hide(chart);
    if (!svg) return;
    const box = svg.getBoundingClientRect(), chart = svg.closest("figure");
    show(chart, Math.round(((e.clientX - box.left) * 426 / box.width - left) / (right - left) * Number(chart.dataset.points)));
  });
  document.addEventListener("keydown", (e) => {
    const chart = e.target.closest?.(".plot")?.closest("figure");
    if (!chart || e.ctrlKey || e.metaKey || e.altKey) return;
    const n = Number(chart.dataset.points), at = Number(chart.dataset.at ?? n + 1);
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n}[e.key];
    if (e.key === "Escape") hide(chart);
    else if (to !== undefined) { e.preventDefault(); show(chart, to); }
  });
  document.addEventListener("focusout", (e) => { const chart = e.target.closest?.("figure.chart"); if (chart) hide(chart); });

  // Charts come after the page. Only with this script is there a reason to go to them by keyboard.
  const reach = () => {
    for (const plot of document.querySelectorAll(".plot:not([tabindex])")) {
      plot.tabIndex = 0;
      plot.setAttribute("role", "group");
      plot.setAttribute("aria-label", plot.closest("figure").querySelector("h3").textContent + ": the arrow keys read values");
    }
  };
  new MutationObserver(reach).observe(document.getElementById("main"), {childList: true, subtree: true});
  reach();
}
