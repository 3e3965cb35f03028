// Where every cell stands: groups in level columns, in each group one tile a node, in each tile its GPUs. Pure.

export const GROUPS = {
  pool: { word: "Pool", of: (layout, row) => layout.pool(row) },
  node: { word: "Node", of: (layout, row) => layout.node(row) },
  rack: { word: "Rack", of: (layout, row) => layout.rack(row) ?? "no rack label" },
  model: { word: "GPU model", of: (layout, row) => layout.model(row) },
  service: { word: "Service", of: (layout, row) => layout.service(row) ?? "no online service" },
  state: { word: "State", of: null }, // changes from second to second: asked of the store
};

const LABEL = 22, UNDER = 12, TILE_LABEL = 15, NAMED_FROM = 22, TALLEST = 1.4;

/** Text that a filter is matched against, lower case; words of the filter may stand in any order. */
export function haystack(layout, row, stateWord) {
  return [layout.pool(row), layout.name(row), layout.model(row), layout.service(row) ?? "", layout.rack(row) ?? "", stateWord].join(" ").toLowerCase();
}

/** Whether every word of `query` occurs in `text`. */
export function matches(text, query) {
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Rows as groups of tiles: [{ name, note, rows, tiles: [{ name, rows }] }]; the largest group first, equal ones by name. */
export function group(layout, rows, by, stateOf) {
  const keyOf = by === "state" ? stateOf : (row) => GROUPS[by].of(layout, row);
  const groups = [...collect(rows, keyOf)].map(([name, mine]) => ({
    name, rows: mine, note: noteOf(layout, mine, by),
    tiles: [...collect(mine, (row) => layout.node(row))].sort(byName).map(([node, gpus]) => ({ name: by === "node" ? "" : node, rows: gpus.sort((a, b) => layout.index(a) - layout.index(b)) })),
  }));
  return groups.sort((a, b) => b.tiles.length - a.tiles.length || compare(a.name, b.name));
}

function collect(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) {
    const key = keyOf(row), mine = groups.get(key);
    if (mine) mine.push(row);
    else groups.set(key, [row]);
  }
  return groups;
}

const byName = ([a], [b]) => compare(a, b);
const compare = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });

function noteOf(layout, rows, by) {
  const words = new Set(rows.map((row) => (by === "model" ? layout.pool(row) : layout.model(row))));
  if (words.size === 1) return [...words][0];
  return by === "model" ? `${words.size} pools` : `${words.size} models`;
}

/**
 * Places `groups` into `width` × `height`: the largest cells that fit win, and may stand taller than wide.
 * options: columns (most), pad, gap, labels (height of group names, 0: none), least and most (px a cell), tileNames.
 * Answers { x, y (by row), size, sizeY, pitch, pitchY, groups: [{…, x, y, width}], tiles: [{name, x, y, width}], height }.
 * What does not fit even with the smallest cells grows beyond `height`.
 */
export function arrange(groups, count, width, height, options = {}) {
  const o = { columns: 4, pad: 16, gap: 22, label: LABEL, under: UNDER, least: 5, most: 46, tileNames: true, ...options };
  const shape = tileShape(groups);
  let best = null;
  for (let columns = 1; columns <= Math.min(o.columns, Math.max(1, groups.length)); columns += 1) {
    const plan = fit(groups, shape, width, height, columns, o);
    if (!best || plan.pitch > best.pitch || (plan.pitch === best.pitch && plan.height < best.height)) best = plan;
  }
  return write(best, groups, shape, count, o);
}

/** Columns and rows of the largest tile; all tiles take its room, so that nodes line up. */
function tileShape(groups) {
  const most = Math.max(1, ...groups.flatMap((one) => one.tiles.map((tile) => tile.rows.length)));
  const columns = most <= 2 ? most : most <= 8 ? 2 : 4;
  return { columns, rows: Math.ceil(most / columns) };
}

function fit(groups, shape, width, height, columns, o) {
  const room = (width - o.pad * 2 - o.gap * (columns - 1)) / columns;
  const plan = (pitch, pitchY) => {
    const tileGap = pitch > 16 ? 8 : pitch > 8 ? 4 : 3, tile = pitch * shape.columns + tileGap, named = o.tileNames && pitch >= NAMED_FROM ? TILE_LABEL : 0;
    const perRow = Math.max(1, Math.floor((room + tileGap) / tile)), line = pitchY * shape.rows + tileGap + named;
    const filled = Array(columns).fill(0);
    const places = groups.map(({ tiles }) => {
      const column = filled.indexOf(Math.min(...filled)), y = o.pad - 4 + filled[column];
      filled[column] += o.label + Math.ceil(tiles.length / perRow) * line + o.under;
      return [o.pad + column * (room + o.gap), y];
    });
    return { pitch, pitchY, tile, tileGap, named, perRow, line, room, places, height: Math.max(0, ...filled) + o.pad - 4, wide: tile - tileGap <= room };
  };
  let pitch = o.most;
  while (pitch > o.least && !(plan(pitch, pitch).height <= height && plan(pitch, pitch).wide)) pitch -= 0.5;
  let tall = plan(pitch, pitch);
  for (let pitchY = pitch + 0.5; pitchY <= pitch * TALLEST && plan(pitch, pitchY).height <= height; pitchY += 0.5) tall = plan(pitch, pitchY);
  return tall;
}

function write(plan, groups, shape, count, o) {
  const gutter = plan.pitch > 8 ? 2 : 1, x = new Float32Array(count).fill(NaN), y = new Float32Array(count).fill(NaN), tiles = [];
  groups.forEach((one, g) => {
    const [left, top] = plan.places[g];
    one.tiles.forEach((tile, t) => {
      const tileX = left + (t % plan.perRow) * plan.tile, tileY = top + o.label + Math.floor(t / plan.perRow) * plan.line + plan.named;
      if (plan.named && tile.name) tiles.push({ name: tile.name, x: Math.round(tileX), y: Math.round(tileY - plan.named), width: plan.tile - plan.tileGap });
      tile.rows.forEach((row, i) => {
        x[row] = Math.round(tileX + (i % shape.columns) * plan.pitch);
        y[row] = Math.round(tileY + Math.floor(i / shape.columns) * plan.pitchY);
      });
    });
  });
  const widest = (tiles) => Math.min(tiles.length, plan.perRow) * plan.tile - plan.tileGap;
  return {
    x, y, tiles, pitch: plan.pitch, pitchY: plan.pitchY, height: Math.ceil(plan.height),
    size: Math.max(3, Math.round(plan.pitch - gutter)), sizeY: Math.max(3, Math.round(plan.pitchY - gutter)),
    groups: groups.map((one, g) => ({ ...one, x: Math.round(plan.places[g][0]), y: Math.round(plan.places[g][1]), width: Math.max(widest(one.tiles), Math.min(plan.room, 150)), room: plan.room })),
  };
}
