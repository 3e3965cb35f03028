// What comes into sight when a window moves over a picture: columns from x to toX, rows from y to toY of the window. Pure.
export const NOTHING = { x: 0, toX: 0, y: 0, toY: 0 };

/** After a move by (dx, dy) of a window of width × height. */
export function exposed(dx, dy, width, height) {
  const [x, toX] = side(dx, width), [y, toY] = side(dy, height);
  return { x, toX, y, toY };
}

function side(by, length) {
  const size = Math.min(Math.abs(by), length);
  return by > 0 ? [length - size, length] : [0, size];
}

/** Whether a box lies in these columns or in these rows, with a part of it at least. */
export function touches({ x, toX, y, toY }, left, top, right, bottom) {
  return Math.max(left, x) < Math.min(right, toX) || Math.max(top, y) < Math.min(bottom, toY);
}
