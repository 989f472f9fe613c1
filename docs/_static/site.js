// What scrolls can be reached by keyboard, the parts of a long signature are no list, the cards of the gallery have names.
document.querySelectorAll("pre, .drawn, .table-wrapper").forEach((one) => { one.tabIndex = 0; });
document.querySelectorAll("dt.sig dl, dt.sig dd").forEach((one) => one.setAttribute("role", "presentation"));
document.querySelectorAll(".sphx-glr-thumbcontainer").forEach((card) => card.querySelector("a")
  ?.setAttribute("aria-label", card.querySelector(".sphx-glr-thumbnail-title").textContent));
