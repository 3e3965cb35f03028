// Canvases without a screen: what is filled has the colour it was filled with, text is noted, all else is let pass.
class Context {
  constructor(canvas) { Object.assign(this, { canvas, texts: [], shown: 0, picture: null }); }
  createImageData(width, height) { return { width, height, data: new Uint8ClampedArray(width * height * 4) }; }
  putImageData({ data }) { this.picture = Uint32Array.from(new Uint32Array(data.buffer)); this.shown += 1; }
  measureText(text) { return { width: text.length * 6 }; }
  fillText(text) { this.texts.push(text); this.told(text); }
  fillRect(...box) { this.told(this.fillStyle, ...box); }
  strokeRect(...box) { this.told(this.strokeStyle, ...box); }
  fill() { this.told(this.fillStyle); }
  stroke() { this.told(this.strokeStyle); }

  /** What was drawn so far, as one number. */
  told(...what) {
    for (const letter of `${what} ${this.globalAlpha}`) this.mark = (Math.imul(this.mark ?? 7, 31) + letter.charCodeAt(0)) >>> 0;
  }

  getImageData(_x, _y, width, height) {
    const data = new Uint8ClampedArray(width * height * 4);
    new Uint32Array(data.buffer).fill(this.mark);
    this.mark = 7;
    return { data };
  }
}
for (const name of ["setTransform", "clearRect", "save", "restore", "beginPath", "rect", "roundRect", "clip", "moveTo", "lineTo", "arc", "translate", "scale"]) Context.prototype[name] = () => {};

export class Canvas {
  constructor(width = 1, height = 1) { Object.assign(this, { width, height, context: new Context(this) }); }
  getContext() { return this.context; }
}

globalThis.OffscreenCanvas = Canvas;
globalThis.Path2D = class {};

const due = new Map();
let asked = 0;
globalThis.requestAnimationFrame = (paint) => { due.set(asked += 1, paint); return asked; };
globalThis.cancelAnimationFrame = (number) => due.delete(number);

/** The screen takes its next frame. */
export function nextFrame() {
  const paints = [...due.values()];
  due.clear();
  paints.forEach((paint) => paint());
}
