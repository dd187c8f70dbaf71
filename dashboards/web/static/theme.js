// Before the first paint: the colours that the visitor chose, otherwise those of the system.
const chosen = localStorage.getItem("detol-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
