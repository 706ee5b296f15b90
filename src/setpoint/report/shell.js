// What every page has: the button for dark and light, and tables that can be reached with the keyboard.
(function () {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
  });

  // Make tables that are too wide for the screen scrollable with the keyboard.
  function reachable() {
    for (const element of document.querySelectorAll(".scroll")) {
      if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
      else element.removeAttribute("tabindex");
    }
  }
  window.addEventListener("resize", reachable);
  for (const element of document.querySelectorAll("details")) {
    element.addEventListener("toggle", reachable);
  }

  document.documentElement.classList.add("script");
  reachable();
})();
