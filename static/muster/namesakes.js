// Rows with one name: an address keeps to the row of the page with `?owner=` (studio/owner_urls.py).

/**
 * The path, with the query that tells the row of the page from its namesakes.
 * @param {string | undefined} query such as "owner=alice"; empty if the name means this row
 * @param {string} path with or without a query
 */
export function keptTo(query, path) {
  if (!query) return path;
  const sign = path.includes("?") ? "&" : "?";
  return `${path}${sign}${query}`;
}
