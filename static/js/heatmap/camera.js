// Where one looks on a map larger than its window: zoom 1 shows all of it, larger ones a part. Pure.

const CLOSEST_PX = 56, STEP = 1.5;

/** Zooms over which `placed` makes sense: from all of it to cells of some 56 px. */
export const closest = (placed) => Math.max(1, CLOSEST_PX / placed.pitch);

/** Width and height of a cell in CSS px. */
export const cellSize = ({ size, sizeY }, zoom) => [size, sizeY].map((side) => Math.max(2, Math.round(side * zoom)));

export class Camera {
  constructor() {
    Object.assign(this, { zoom: 1, x: 0, y: 0, width: 1, height: 1, world: { width: 1, height: 1, closest: 1 } });
  }

  /** The window in CSS px, and the map at zoom 1. */
  frame(width, height, world) {
    Object.assign(this, { width, height, world });
    this.clamp();
  }

  /** Zooms so that the point (px, py) of the window stays where it is. */
  zoomTo(zoom, px = this.width / 2, py = this.height / 2) {
    const next = Math.max(1, Math.min(this.world.closest, zoom)), factor = next / this.zoom;
    this.x = (this.x + px) * factor - px;
    this.y = (this.y + py) * factor - py;
    this.zoom = next;
    this.clamp();
  }

  step(direction, px, py) { this.zoomTo(this.zoom * STEP ** direction, px, py); }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.clamp();
  }

  /** Moves as little as needed so that a box of the map (at zoom 1) is seen, with some room around it. */
  reveal(x, y, width, height, room = 24) {
    const { zoom } = this;
    this.x = Math.min(Math.max(this.x, (x + width) * zoom + room - this.width), x * zoom - room);
    this.y = Math.min(Math.max(this.y, (y + height) * zoom + room - this.height), y * zoom - room);
    this.clamp();
  }

  clamp() {
    this.zoom = Math.max(1, Math.min(this.world.closest, this.zoom));
    this.x = Math.max(0, Math.min(this.x, this.world.width * this.zoom - this.width));
    this.y = Math.max(0, Math.min(this.y, this.world.height * this.zoom - this.height));
  }

  get at() { return { zoom: this.zoom, x: this.x, y: this.y }; }
  get isWhole() { return this.world.width * this.zoom <= this.width + 1 && this.world.height * this.zoom <= this.height + 1; }

  /** The middle of the window as shares of the map, for an address. */
  get centre() { return [(this.x + this.width / 2) / (this.world.width * this.zoom), (this.y + this.height / 2) / (this.world.height * this.zoom)]; }

  lookAt(zoom, [shareX, shareY]) {
    this.zoom = zoom;
    this.clamp();
    this.x = shareX * this.world.width * this.zoom - this.width / 2;
    this.y = shareY * this.world.height * this.zoom - this.height / 2;
    this.clamp();
  }
}
