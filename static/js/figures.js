// Numbers and spans of time as people read them: the browser's twin of console/figures.py. DOM-free.
export const NO_DATA = "no data";
const NBSP = "\u00a0";

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** "1,395 MHz"; "no data" for null. */
export function quantity(value, unit = "", digits = 0) {
  if (value == null || Number.isNaN(value)) return NO_DATA;
  const text = fixed(value, digits);
  return unit ? text + NBSP + unit : text;
}

/** "11.8 GiB" */
export function size(bytes, digits = 1) {
  if (bytes == null) return NO_DATA;
  let value = bytes, index = 0;
  while (Math.abs(value) >= 1024 && index < BINARY.length - 1) { value /= 1024; index += 1; }
  return quantity(value, BINARY[index], index ? digits : 0);
}

/** "+18.5 points" */
export function signed(value, unit = "", digits = 1) {
  const text = quantity(value, unit, digits);
  return Number(value?.toFixed(digits)) > 0 ? `+${text}` : text;
}

/** "0.4 s", "7 s", "6 min", "1 h 12 min" */
export function span(seconds) {
  if (seconds == null) return NO_DATA;
  const s = Math.max(0, seconds);
  if (s < 9.95) return quantity(s, "s", Number.isInteger(s) ? 0 : 1);
  const whole = Math.round(s);
  if (whole < 90) return quantity(whole, "s");
  if (whole < HOUR) return quantity(Math.round(whole / MINUTE), "min");
  return whole < DAY ? pair(whole, HOUR, "h", MINUTE, "min") : pair(whole, DAY, "d", HOUR, "h");
}

/** "3:10": the time left; "0:00" once it is due. */
export function countdown(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / HOUR), minutes = Math.floor((whole % HOUR) / MINUTE);
  return hours ? `${hours}:${two(minutes)}:${two(whole % MINUTE)}` : `${minutes}:${two(whole % MINUTE)}`;
}

/** "now", "6 min ago", "in 4 min" */
export function age(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const text = span(Math.abs(Math.round(seconds)));
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

// Making a formatter takes far longer than using it, and live pages write many numbers a second.
const FORMATS = Array.from({ length: 4 }, (_, digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** "20,000" */
export const whole = (count) => (count < 1000 ? String(count) : FORMATS[0].format(count));

function fixed(value, digits) {
  const text = FORMATS[digits].format(value);
  if (!text.startsWith("-")) return text;
  return /[1-9]/.test(text) ? `\u2212${text.slice(1)}` : text.slice(1);
}

function pair(seconds, bigS, big, smallS, small) {
  const units = Math.round(seconds / smallS), per = bigS / smallS;
  const count = Math.floor(units / per), rest = units % per;
  return quantity(count, big) + (rest ? NBSP + quantity(rest, small) : "");
}
