"use strict";
(function () {
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  document.body.appendChild(tip);

  // One tooltip at a time: the text of <title> moves to a label, which the pointer shows and screen readers read.
  document.querySelectorAll("svg title").forEach(function (title) {
    var mark = title.parentNode;
    mark.setAttribute("data-tip", title.textContent);
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", title.textContent);
    title.remove();
  });

  function show(mark, x, y) {
    tip.textContent = mark.getAttribute("data-tip");
    tip.classList.add("shown");
    var box = tip.getBoundingClientRect();
    var left = Math.min(Math.max(8, x - box.width / 2), document.documentElement.clientWidth - box.width - 8);
    var top = y - box.height - 14;
    tip.style.left = left + "px";
    tip.style.top = (top < 8 ? y + 20 : top) + "px";
  }

  function hide() {
    tip.classList.remove("shown");
  }

  function follow(event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (mark) show(mark, event.clientX, event.clientY);
    else hide();
  }

  document.addEventListener("pointermove", follow);
  document.addEventListener("pointerdown", follow);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") hide();
  });

  // A search among many samples: without scripts the groups are opened by hand.
  var search = document.querySelector(".search");
  if (search) {
    search.hidden = false;
    var field = search.querySelector("input"), told = search.querySelector("output");
    field.addEventListener("input", function () {
      var words = field.value.toLowerCase().split(/\s+/).filter(Boolean), found = 0;
      document.querySelectorAll(".group").forEach(function (group) {
        var here = 0;
        group.querySelectorAll("tbody tr").forEach(function (row) {
          var text = Array.prototype.map.call(row.querySelectorAll("th, .bias"), function (one) { return one.textContent; }).join(" ").toLowerCase();
          row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
          if (!row.hidden) here += 1;
        });
        group.hidden = !here;
        group.open = words.length > 0 && here > 0;
        found += here;
      });
      told.textContent = words.length ? found + (found === 1 ? " sample" : " samples") : "";
    });
  }

  // What is folded on the screen is printed.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.prototype.filter.call(document.querySelectorAll("details"), function (one) { return !one.open; });
    folded.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (one) { one.open = false; });
  });
})();
