"""The unreadable parts of an open page: text that is cut or beyond the window, and figures that are broken in two."""

from __future__ import annotations

from tests.support.tabs import Tab

_CUT = """() => {
  const wide = document.documentElement.clientWidth;
  const faults = [];
  const says = (what, element) => faults.push(`${what}: ${element.textContent.trim().slice(0, 60)}`);
  const apart = '.skip, .visually-hidden, .patterns, option, optgroup, datalist, title';
  const hasText = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const scrolls = style => ['auto', 'scroll'].includes(style.overflowX);
  const clips = style => style.overflowX !== 'visible' || style.clipPath !== 'none';
  const reachable = element => element.tabIndex >= 0 && element.querySelector('svg.timeline') !== null;
  for (const element of document.querySelectorAll('body *')) {
    if (!element.checkVisibility({visibilityProperty: true}) || element.closest(apart)) continue;
    const drawn = element.closest('svg') !== null;
    if (drawn ? element.localName !== 'text' : !hasText(element)) continue;
    const box = element.getBoundingClientRect();
    let scroller = null;
    for (let at = element.parentElement; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (at.closest('svg') || at === document.documentElement || !clips(style)) continue;
      if (scrolls(style) && reachable(at)) { scroller = at; break; }
      const edge = at.getBoundingClientRect();
      if (box.right > edge.right + 1 || box.left < edge.left - 1) says('cut at an edge', element);
    }
    if (scroller) continue;
    if (box.right > wide + 1 || box.left < -1) says('beyond the window', element);
    const room = element.clientWidth;
    if (!drawn && room && element.scrollWidth > room + 1) says('too wide', element);
  }
  const pen = document.createElement('canvas').getContext('2d');
  for (const field of document.querySelectorAll('input[placeholder]')) {
    if (!field.checkVisibility()) continue;
    const style = getComputedStyle(field);
    pen.font = style.font;
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (pen.measureText(field.placeholder).width > room + 1) faults.push(`example: ${field.placeholder}`);
  }
  return faults;
}"""

_BROKEN = """() => {
  const faults = [];
  const apart = '.visually-hidden, .skip, svg, details:not([open]) > :not(summary)';
  const lines = node => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].filter(box => box.width > 1).map(box => Math.round(box.bottom))).size;
  };
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode;
    const around = node.parentElement;
    if (!node.data.trim() || !around.checkVisibility() || around.closest(apart)) continue;
    const figure = around.closest('td.num, thead th') && !around.closest('.under');
    const whole = figure || around.closest('.one-line, .state, code.word, a.word, .cards b, time');
    if (whole && lines(node) > 1) faults.push(`broken over lines: ${node.data.trim()}`);
  }
  return faults;
}"""

_LINES_OF = """name => {
  const nodes = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  let most = 0;
  while (nodes.nextNode()) {
    const node = nodes.currentNode;
    const around = node.parentElement;
    if (node.data.trim() !== name || !around.checkVisibility() || around.closest('svg, pre, option')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    most = Math.max(most, new Set([...range.getClientRects()].map(box => Math.round(box.bottom))).size);
  }
  return most;
}"""


def illegible(tab: Tab) -> list[str]:
    """Texts that are cut or beyond the window, and figures, codes and states that are broken over lines."""
    return [*tab.page.evaluate(_CUT), *tab.page.evaluate(_BROKEN)]


def lines_of(tab: Tab, name: str) -> int:
    """The most lines that a name takes anywhere in the content of the page; 0 if it is not there."""
    return int(tab.page.evaluate(_LINES_OF, name))
