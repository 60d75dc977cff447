// Which view is shown: "#/" all controllers and fleets, "#/c/<id>" one controller, "#/f/<id>" one fleet.

import { onTokenNeeded } from "./api.js";
import { keepTime } from "./badges.js";
import { controllerView } from "./controller.js";
import { controllersView } from "./controllers.js";
import { fleetView } from "./fleet.js";
import { offerTheme } from "./theme.js";
import { askToken, offerToForget } from "./token.js";

const main = document.getElementById("main");
let view = null;

function show(first) {
  if (location.hash === "#main") return; // the skip link, not a view
  view?.stop();
  const found = /^#\/([cf])\/([a-z0-9_-]+)$/.exec(location.hash); // as ids are; whatever else was typed leads to all of them
  const one = { c: controllerView, f: fleetView };
  view = found ? one[found[1]](main, found[2]) : controllersView(main);
  // Whoever reads by ear or keyboard starts at the new view's heading; the first view starts where the browser does.
  if (!first) {
    view.title.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

onTokenNeeded(askToken);
offerToForget();
offerTheme(document.getElementById("theme"));
keepTime();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address belongs to the views
  main.focus();
});
addEventListener("hashchange", () => show(false));
show(true);
