// What scrolls can be reached by keyboard; the parts of a long signature are no list.
document.querySelectorAll("pre, .drawn, .table-wrapper").forEach((one) => { one.tabIndex = 0; });
document.querySelectorAll("dt.sig dl, dt.sig dd").forEach((one) => one.setAttribute("role", "presentation"));
