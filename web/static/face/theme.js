// Runs before anything is drawn, so that no page flashes in the other theme.
(() => {
  let theme = null;
  try { theme = localStorage.getItem("tierq-theme"); } catch { /* no storage here: as the system has it */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
