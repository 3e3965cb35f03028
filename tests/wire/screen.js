// The page's own reader and store, moved by a test in Python: a line of JSON in, a line of JSON out.
import { createInterface } from "node:readline";
import { Layout, Store } from "../../static/js/store.js";
import { FIELDS, decode, isValue } from "../../static/js/wire.js";

let store;

const DOES = {
  layout({ document }) {
    store = new Store();
    store.use(new Layout(document));
    return "ok";
  },
  expect({ number, fields, gpus, closer }) {
    const mask = (ids) => ids && Uint8Array.from(store.layout.ids, (id) => Number(ids.includes(id)));
    store.expect(number, { fields: fields.map((name) => FIELDS.indexOf(name)), rows: mask(gpus), closer: mask(closer) });
    return "ok";
  },
  frame({ data }) {
    return store.apply(decode(Uint8Array.from(Buffer.from(data, "base64")).buffer));
  },
  /** What may be said of each row: its columns, null where the value is not kept current. */
  dump({ detail }) {
    const rows = store[detail];
    return Array.from({ length: rows.count }, (_, row) => rows.columns.map((bytes, column) => (isValue(column) && !rows.isWatched(row, column) ? null : bytes[row])));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...body } = JSON.parse(line);
  console.log(JSON.stringify(DOES[op](body)));
}
