"""Which elements of a page the Tab key reaches, and whether each shows that it has the focus."""

from __future__ import annotations

from typing import Any

from tests.support.tabs import Tab

_WATCH = """() => {
  const all = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]:not([tabindex="-1"])';
  const another = element => element.type === 'radio' && !element.checked
    && document.querySelector(`input[name="${element.name}"]:checked`);
  const open = element => !element.disabled && !another(element);
  const shown = element => open(element) && element.checkVisibility({visibilityProperty: true});
  const seen = new Set();
  const unmarked = new Set();
  const name = element => element.outerHTML.slice(0, 120);
  document.addEventListener('focusin', event => {
    const element = event.target;
    seen.add(element);
    const style = getComputedStyle(element);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    if (!outlined && style.boxShadow === 'none') unmarked.add(name(element));
  });
  window.tabStops = {
    count: () => [...document.querySelectorAll(all)].filter(shown).length,
    report: () => ({
      missed: [...document.querySelectorAll(all)].filter(shown).filter(each => !seen.has(each)).map(name),
      unmarked: [...unmarked],
    }),
  };
  return window.tabStops.count();
}"""


def keyboard_faults(tab: Tab) -> list[str]:
    """Elements that Tab does not reach, and those that it reaches without a visible mark."""
    count: int = tab.page.evaluate(_WATCH)
    for _ in range(count + 1):
        tab.page.keyboard.press("Tab")
    report: dict[str, Any] = tab.page.evaluate("window.tabStops.report()")
    return [f"{kind}: {each}" for kind in ("missed", "unmarked") for each in report[kind]]
