"use strict";
(() => {
  const root = document.documentElement;
  root.classList.remove("no-js");
  const byId = (id) => document.getElementById(id);
  const steps = Array.from(document.querySelectorAll(".step"));
  const others = Array.from(document.querySelectorAll("[data-s]:not(.step)"));
  const chips = Array.from(document.querySelectorAll(".chip"));
  const q = byId("q"), found = byId("found"), none = byId("none");

  // What a step says is read when it is first searched: most pages never are.
  const texts = [];
  const text = (i) => texts[i] ??= steps[i].textContent.toLowerCase();

  const filter = () => {
    const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(chips.filter((c) => c.getAttribute("aria-pressed") === "true").map((c) => c.dataset.state));
    const all = words.length === 0 && states.size === 0;
    const shown = steps.map((s, i) => all || (states.size === 0 || states.has(s.dataset.state)) && words.every((w) => text(i).includes(w)));
    steps.forEach((s, i) => { s.hidden = !shown[i]; });
    for (const o of others) {
      const on = shown[+o.dataset.s];
      if (o.classList.contains("node")) o.classList.toggle("dim", !on);
      else o.hidden = !on;
    }
    const n = shown.filter(Boolean).length;
    found.textContent = all ? "" : n + " of " + steps.length + " steps";
    none.hidden = n > 0;
  };

  let soon = 0;
  q.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(filter, 120); });
  for (const c of chips) {
    c.addEventListener("click", () => {
      c.setAttribute("aria-pressed", String(c.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
  byId("open").addEventListener("click", () => { for (const s of steps) s.open = !s.hidden || s.open; });
  byId("close").addEventListener("click", () => { for (const s of steps) s.open = false; });

  // A link to a step opens it, also when the filter hides it.
  const go = () => {
    const s = /^#s\d+$/.test(location.hash) && byId(location.hash.slice(1));
    if (!s) return;
    s.hidden = false;
    s.open = true;
    s.scrollIntoView({block: "start"});
    s.querySelector("summary").focus({preventScroll: true});
  };
  addEventListener("hashchange", go);
  document.addEventListener("click", (e) => {
    const a = e.target.closest("a[href^='#s']");
    if (a && a.getAttribute("href") === location.hash) go();
  });
  go();

  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "/" && document.activeElement !== q) {
      e.preventDefault();
      q.focus();
      q.select();
    } else if (e.key === "Escape" && document.activeElement === q) {
      q.value = "";
      filter();
    }
  });

  // On paper, what failed is told in full.
  addEventListener("beforeprint", () => { for (const s of steps) s.open = s.open || s.dataset.state === "failed"; });

  const themes = ["auto", "light", "dark"];
  const theme = byId("theme");
  const paint = (t) => {
    if (t === "auto") delete root.dataset.theme;
    else root.dataset.theme = t;
    theme.textContent = "Theme: " + t;
  };
  let now = "auto";
  try { now = localStorage.getItem("kplan-theme") || now; } catch { /* a page from a file may keep nothing */ }
  if (!themes.includes(now)) now = "auto";
  paint(now);
  theme.addEventListener("click", () => {
    now = themes[(themes.indexOf(now) + 1) % themes.length];
    paint(now);
    try { localStorage.setItem("kplan-theme", now); } catch { /* as above */ }
  });
})();
