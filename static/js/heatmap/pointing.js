// Mouse, touch and keys on the map: hover, press, drag, wheel, pinch. What they mean is the page's.

const DRAG_PX = 4, WHEEL = 0.0015;

export class Pointing {
  /** `page` answers hover(x, y), unhover(), press(x, y), pan(dx, dy), zoomBy(factor, x, y) and key(name, shift); x and y in px of the canvas. */
  constructor(canvas, page) {
    Object.assign(this, { canvas, page, fingers: new Map(), dragged: false, apart: 0 });
    const on = (name, handle, options) => canvas.addEventListener(name, (event) => handle.call(this, event), options);
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", this.up);
    on("pointerleave", () => this.fingers.size || page.unhover());
    on("click", this.click);
    on("wheel", this.wheel, { passive: false });
    on("blur", () => page.unhover());
    on("keydown", (event) => !event.ctrlKey && !event.metaKey && !event.altKey && page.key(event.key, event.shiftKey) && event.preventDefault());
  }

  /** In px of the canvas; its box is measured when something begins, not with every move. */
  at({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  }

  down(event) {
    if (event.button !== 0) return;
    if (!this.fingers.size) this.dragged = false;
    this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (this.fingers.size === 2) this.apart = this.distance();
  }

  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return event.pointerType === "mouse" && this.page.hover(...this.at(event));
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    if (!this.dragged && Math.hypot(dx, dy) < DRAG_PX) return;
    if (!this.dragged) this.canvas.setPointerCapture(event.pointerId);
    this.dragged = true;
    this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (this.fingers.size === 2) this.pinch(event);
    else this.page.pan(-dx, -dy);
  }

  pinch(event) {
    const apart = this.distance();
    if (this.apart > 0) this.page.zoomBy(apart / this.apart, ...this.at(event));
    this.apart = apart;
  }

  distance() {
    const [[x1, y1], [x2, y2]] = [...this.fingers.values()];
    return Math.hypot(x1 - x2, y1 - y2);
  }

  up(event) { this.fingers.delete(event.pointerId); }

  click(event) {
    if (!this.dragged) this.page.press(...this.at(event));
    this.dragged = false;
  }

  /** The page scrolls where there is nothing to zoom. */
  wheel(event) {
    if (this.page.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 8 : 1) * WHEEL), ...this.at(event))) event.preventDefault();
  }
}
