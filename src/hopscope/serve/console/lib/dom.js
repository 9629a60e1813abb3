/** Elements without a framework: `h` creates them, `fill` and `keyed` change their content. */

/**
 * Make an element. Attributes: `class`, `on*` listeners, `style` (an object), `data` (an object), properties that are
 * booleans, and any attribute; null, undefined and false leave it out. Children: nodes, text, numbers, arrays.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** An SVG element, as `h`. */
export function svg(tag, attributes, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Replace all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set a text only if it differs, to avoid needless layout. */
export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

/** Set or remove an attribute. */
export function mark(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
}

/**
 * Bring the children of `parent` in line with `items`: an element for each key is kept, moved, made or removed, so
 * that focus, selection and hover stay where they are.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => Element} make
 * @param {(element: Element, item: T) => void} [update]
 */
export function keyed(parent, items, keyOf, make, update) {
  const have = new Map();
  for (const child of [...parent.children]) {
    if (child.__key === undefined) child.remove();
    else if (have.has(child.__key)) have.get(child.__key).push(child);
    else have.set(child.__key, [child]);
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = have.get(key)?.shift();  // several items may have one key
    if (child) {
      update?.(child, item);
    } else {
      child = make(item);
      child.__key = key;
    }
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of [...have.values()].flat()) child.remove();
}
