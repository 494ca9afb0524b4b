// `/`: a page of links until there is a console.

/** The page as HTML. `addresses` by name, `paths` of the admin API. */
export function plainPage(addresses: Readonly<Record<string, string>>, paths: readonly string[]): string {
  const rows = Object.entries(addresses).map(
    ([name, url]) => `<li>${escapeHtml(name)}: <code>${escapeHtml(url)}</code></li>`,
  );
  const links = paths.map((path) => `<li><a href="${escapeHtml(path)}">${escapeHtml(path)}</a></li>`);
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8"><title>Pointsman</title></head><body>',
    '<h1>Pointsman</h1>',
    ...(rows.length > 0 ? [`<ul>${rows.join('')}</ul>`] : []),
    '<h2>Admin API</h2>',
    `<ul>${links.join('')}</ul>`,
    '</body></html>',
    '',
  ].join('\n');
}

function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (character) => names[character] ?? character);
}
