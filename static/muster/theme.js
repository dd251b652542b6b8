// Runs before the first paint: the theme that the person chose, else the system's.
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
