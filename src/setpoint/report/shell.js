// What every page has: the button for dark and light, and tables that can be reached with the keyboard.
(function () {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement, button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light mode" : "Dark mode"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  dark.addEventListener("change", label);
  label();

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

  root.classList.add("script");
  reachable();
})();
