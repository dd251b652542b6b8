// Where this site begins: at "/", or below a path, such as "/muster/".
const ROOT = new URL("../../", import.meta.url).pathname;

/** The path as the browser asks for it. @param {string} path on the site, such as /runs/ */
export const sitePath = (path) => ROOT + path.slice(1);
/** The address of the site, without a slash at the end. */
export const SITE = location.origin + ROOT.slice(0, -1);
