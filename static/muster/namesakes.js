// Rows with one name: an address keeps to the row of the page with `?owner=` (studio/owner_urls.py).

/** @param {string | undefined} query such as "owner=alice"; empty if the name means this row @param {string} path with or without a query */
export const keptTo = (query, path) => (query ? `${path}${path.includes("?") ? "&" : "?"}${query}` : path);
