// Where every cell stands: groups in level columns, in each group one tile a node, in each tile its GPUs. Pure.

const GROUPS = {
  pool: { word: "Pool", of: (layout, row) => layout.pool(row) },
  node: { word: "Node", of: (layout, row) => layout.node(row) },
  rack: { word: "Rack", of: (layout, row) => layout.rack(row) ?? "no rack label" },
  model: { word: "GPU model", of: (layout, row) => layout.model(row) },
  service: { word: "Service", of: (layout, row) => layout.service(row) ?? "no online service" },
  state: { word: "State", of: null }, // changes from second to second: asked of the store
};

const TILE_LABEL = 15, NAMED_FROM = 22, TALLEST = 1.4; // px, px, of a cell's width
const NARROWEST = 172; // px a group takes at least, for its name and count

/** A model without the maker's name, where room is short. */
export const shortModel = (model) => model.replace(/^NVIDIA /, "");

const texts = new WeakMap();

/** What a filter is matched against of each row, lower case, without its state: written once for each layout. */
function textsOf(layout) {
  const of = (row) => [layout.pool(row), layout.name(row), layout.model(row), layout.service(row) ?? "", layout.rack(row) ?? ""].join(" ").toLowerCase();
  if (!texts.has(layout)) texts.set(layout, Array.from({ length: layout.count }, (_, row) => of(row)));
  return texts.get(layout);
}

/** The rows that a filter finds: every word of it, in any order, stands in what is told of the row or in its state. An empty one finds all. */
export function find(layout, query, stateWord) {
  const rows = Array.from({ length: layout.count }, (_, row) => row), words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const told = textsOf(layout);
  return rows.filter((row) => words.every((word) => told[row].includes(word) || stateWord(row).toLowerCase().includes(word)));
}

/** The nodes of a layout, named as GPUs are: what a map seen from afar is laid out by. */
export class NodeNames {
  constructor(layout) {
    Object.assign(this, { layout, count: layout.nodeCount, first: new Int32Array(layout.nodeCount).fill(-1), sizes: new Int32Array(layout.nodeCount) });
    layout.nodeOf.forEach((node, row) => {
      if (this.first[node] < 0) this.first[node] = row;
      this.sizes[node] += 1;
    });
  }

  index() { return 0; }
  node(row) { return this.layout.node(this.first[row]); }
  pool(row) { return this.layout.pool(this.first[row]); }
  rack(row) { return this.layout.rack(this.first[row]); }
  model(row) { return this.layout.model(this.first[row]); }
  name(row) { return this.node(row); }
  size(row) { return this.sizes[row]; }
}

/** Rows as groups of tiles: [{ name, note, size (GPUs), rows, tiles: [{ name, rows }] }]; the largest group first, equal ones by name. */
export function group(layout, rows, by, stateOf) {
  const keyOf = by === "state" ? stateOf : (row) => GROUPS[by].of(layout, row), groups = new Map(), isMine = new Uint8Array(layout.count);
  for (const row of rows) isMine[row] = 1;
  for (const row of inOrder(layout)) if (isMine[row]) add(groups, keyOf(row), layout.node(row), row, by);
  return [...groups.values()].map(({ name, rows: mine, tiles }) => (
    { name, rows: mine, note: noteOf(layout, mine, by), size: layout.size ? mine.reduce((sum, row) => sum + layout.size(row), 0) : mine.length, tiles }
  )).sort((a, b) => b.tiles.length - a.tiles.length || compare(a.name, b.name));
}

/** To its group, and in it to its node's tile: that of the row before, as nodes come one after the other. */
function add(groups, name, node, row, by) {
  let one = groups.get(name);
  if (!one) groups.set(name, one = { name, rows: [], tiles: [], node: null });
  if (one.node !== node) {
    one.node = node;
    one.tiles.push({ name: by === "node" ? "" : node, rows: [] });
  }
  one.rows.push(row);
  one.tiles.at(-1).rows.push(row);
}

const orders = new WeakMap();

/** All rows by their node's name and their index in it: sorted once for each layout. */
function inOrder(layout) {
  if (!orders.has(layout)) {
    const sorted = [...new Set(Array.from({ length: layout.count }, (_, row) => layout.node(row)))].sort(compare), rank = new Map(sorted.map((name, i) => [name, i]));
    orders.set(layout, Int32Array.from({ length: layout.count }, (_, row) => row).sort((a, b) => rank.get(layout.node(a)) - rank.get(layout.node(b)) || layout.index(a) - layout.index(b)));
  }
  return orders.get(layout);
}

const { compare } = new Intl.Collator("en", { numeric: true });

function noteOf(layout, rows, by) {
  const words = new Set(), word = by === "model" ? (row) => layout.pool(row) : (row) => layout.model(row);
  for (const row of rows) words.add(word(row));
  if (words.size === 1) return by === "model" ? [...words][0] : shortModel([...words][0]);
  return by === "model" ? `${words.size} pools` : `${words.size} models`;
}

/**
 * Places `groups` into `width` × `height`: the largest cells that fit win, and may stand taller than wide.
 * Small groups stand side by side on shelves; where that gives smaller cells, groups stand in level columns.
 * options: columns (most), pad, gap, labels (height of a group's name, 0: none), under, least and most (px a cell), tileNames.
 * Answers { x, y (by row), size, sizeY, pitch, pitchY, groups: [{…, x, y, width, room}], tiles: { names, x, y, width } of those that have a name,
 * nameRoom (px over each tile), height }.
 * What does not fit even with the smallest cells grows beyond `height`.
 */
export function arrange(groups, count, width, height, options = {}) {
  const o = { columns: 4, pad: 16, gap: 22, labels: 22, under: 12, least: 5, most: 50, tileNames: true, ...options };
  const shape = tileShape(groups), plans = [(size) => shelves(groups, size, width, o)];
  for (let columns = 1; columns <= Math.min(o.columns, groups.length); columns += 1) plans.push((size) => level(groups, size, width, columns, o));
  const fitted = plans.map((plan) => fit(plan, shape, height, o));
  const best = fitted.reduce((a, b) => (b.pitch > a.pitch ? b : a));
  return write(best, groups, shape, count, o);
}

const largest = ({ tiles }) => Math.max(1, ...tiles.map((tile) => tile.rows.length));

/** Columns of a tile, the same everywhere, and its rows by group: the room of the group's largest, so that nodes line up. */
function tileShape(groups) {
  const most = Math.max(1, ...groups.map(largest)), columns = most <= 2 ? most : most <= 8 ? 2 : 4;
  return { columns, rows: groups.map((one) => Math.ceil(largest(one) / columns)) };
}

const STRIDE = 4, STEP = 0.5; // px by which cells get smaller until they fit, and larger again until they do not

/** The largest cells with which `plan` stays within `height`. */
function fit(plan, shape, height, o) {
  const at = (pitch, pitchY) => {
    const tileGap = pitch > 16 ? 8 : pitch > 8 ? 4 : 3, named = o.tileNames && pitch >= NAMED_FROM ? TILE_LABEL : 0;
    const size = { pitch, pitchY, tileGap, named, tile: pitch * shape.columns + tileGap, lines: shape.rows.map((rows) => pitchY * rows + tileGap + named) };
    return { ...size, ...plan(size) };
  };
  const within = ({ height: needed, fits }) => needed <= height && fits;
  let pitch = o.most;
  while (pitch > o.least && !within(at(pitch, pitch))) pitch = Math.max(o.least, pitch - STRIDE);
  while (pitch < o.most && within(at(pitch + STEP, pitch + STEP))) pitch += STEP;
  let pitchY = pitch;
  while (pitchY + STEP <= pitch * TALLEST && within(at(pitch, pitchY + STEP))) pitchY += STEP;
  return at(pitch, pitchY);
}

const blockHeight = ({ tiles }, perRow, line, o) => o.labels + Math.ceil(tiles.length / perRow) * line + o.under;

/** Groups in columns of equal width, each next one in the shortest column. */
function level(groups, { tile, tileGap, lines }, width, columns, o) {
  const room = (width - o.pad * 2 - o.gap * (columns - 1)) / columns, perRow = Math.max(1, Math.floor((room + tileGap) / tile)), filled = Array(columns).fill(0);
  const places = groups.map((one, g) => {
    const column = filled.indexOf(Math.min(...filled)), place = { x: o.pad + column * (room + o.gap), y: o.pad - 4 + filled[column], room, perRow };
    filled[column] += blockHeight(one, perRow, lines[g], o);
    return place;
  });
  return { places, height: Math.max(0, ...filled) + o.pad - 4, fits: tile - tileGap <= room };
}

/** Groups as wide as their tiles, one after the other; a new shelf when there is no more room. */
function shelves(groups, { tile, tileGap, lines }, width, o) {
  const whole = width - o.pad * 2, most = Math.max(1, Math.floor((whole + tileGap) / tile));
  let x = 0, y = o.pad - 4, tallest = 0;
  const places = groups.map((one, g) => {
    const perRow = Math.min(one.tiles.length, most), room = Math.max(perRow * tile - tileGap, NARROWEST);
    if (x > 0 && x + room > whole) { y += tallest; x = 0; tallest = 0; }
    const place = { x: o.pad + x, y, room, perRow };
    tallest = Math.max(tallest, blockHeight(one, perRow, lines[g], o));
    x += room + o.gap;
    return place;
  });
  return { places, height: y + tallest + o.pad - 4, fits: tile - tileGap <= whole };
}

function write({ places, pitch, pitchY, tile, tileGap, lines, named, height }, groups, shape, count, o) {
  const gutter = pitch > 8 ? 2 : 1, x = new Float32Array(count).fill(NaN), y = new Float32Array(count).fill(NaN), tiles = { names: [], x: [], y: [], width: tile - tileGap };
  groups.forEach((one, g) => {
    const place = places[g];
    one.tiles.forEach((each, t) => {
      const left = place.x + (t % place.perRow) * tile, top = place.y + o.labels + Math.floor(t / place.perRow) * lines[g] + named;
      if (o.tileNames && each.name) addTile(tiles, each.name, left, top);
      each.rows.forEach((row, i) => {
        x[row] = left + (i % shape.columns) * pitch; // rounded where it is drawn, at the zoom of then
        y[row] = top + Math.floor(i / shape.columns) * pitchY;
      });
    });
  });
  return {
    x, y, tiles, pitch, pitchY, height: Math.ceil(height), nameRoom: named || tileGap,
    size: Math.max(2, Math.round(pitch - gutter)), sizeY: Math.max(2, Math.round(pitchY - gutter)),
    groups: groups.map((one, g) => ({ ...one, ...rounded(places[g]), width: Math.round(Math.min(places[g].room, Math.max(Math.min(one.tiles.length, places[g].perRow) * tile - tileGap, NARROWEST))) })),
  };
}

function addTile({ names, x, y }, name, left, top) {
  names.push(name);
  x.push(Math.round(left));
  y.push(Math.round(top));
}

const rounded = ({ x, y, room }) => ({ x: Math.round(x), y: Math.round(y), room: Math.round(room) });
