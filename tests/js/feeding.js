// A live feed without a server: sockets that tests speak through, and frames as bytes.
const KINDS = { snapshot: 1, delta: 2, turn: 3 }, DETAILS = { gpus: 1, nodes: 2 }, HEADER = 40, BLOCK = 12;

export class Socket extends EventTarget {
  static OPEN = 1;
  static all = [];

  constructor() {
    super();
    Object.assign(this, { readyState: 0, sent: [] });
    Socket.all.push(this);
  }

  send(text) { this.sent.push(JSON.parse(text)); }
  close(code = 1000) { this.readyState = 3; this.dispatchEvent(Object.assign(new Event("close"), { code })); }
  open() { this.readyState = 1; this.dispatchEvent(new Event("open")); }
  says(data) { this.dispatchEvent(Object.assign(new Event("message"), { data: data.kind ? bytesOf(data) : JSON.stringify(data) })); }
}

/** The socket that was opened last. */
export const latest = () => Socket.all.at(-1);

/** The document that the next question for the layout is answered with. */
export const answers = { layout: null };

Object.assign(globalThis, { WebSocket: Socket, location: { protocol: "http:", host: "mux" }, fetch: async () => ({ ok: answers.layout !== null, json: async () => answers.layout }) });

/** A frame as `fleet.js` makes it, in the bytes that `wire.js` reads. */
function bytesOf({ kind, sequence, base, epoch, watch, rows, detail, at, blocks }) {
  const out = new Uint8Array(HEADER + blocks.reduce((sum, { named, values }) => sum + BLOCK + named.length + values.length, 0)), view = new DataView(out.buffer);
  view.setUint16(0, 0x464d, true);
  out.set([2, KINDS[kind]], 2);
  [epoch, sequence, base].forEach((number, i) => view.setUint32(4 + 4 * i, number, true));
  view.setFloat64(16, at, true);
  [watch, rows].forEach((number, i) => view.setUint32(24 + 4 * i, number, true));
  out.set([DETAILS[detail], blocks.length], 32);
  let from = HEADER;
  for (const { column, told, named, values } of blocks) {
    out.set([column, told], from);
    view.setUint32(from + 4, values.length, true);
    view.setUint32(from + 8, named.length, true);
    out.set(named, from + BLOCK);
    out.set(values, from + BLOCK + named.length);
    from += BLOCK + named.length + values.length;
  }
  return out.buffer;
}
