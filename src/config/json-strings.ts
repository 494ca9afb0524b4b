// Where the strings of a JSON text end, for those who look at what stands between them.

/** Index just after the string that opens at `quote`; the end of the text when it never closes. */
export function endOfString(text: string, quote: number): number {
  let close = text.indexOf('"', quote + 1);
  while (close >= 0) {
    let backslashes = 0;
    while (text[close - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return close + 1;
    close = text.indexOf('"', close + 1);
  }
  return text.length;
}
