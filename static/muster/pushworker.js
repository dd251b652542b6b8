// The service worker: shows the notices that the site sends, and opens the page that a notice is about.
/** @typedef {{title: string, body: string, url: string, tag: string}} Notice */
const worker = /** @type {any} */ (self);

worker.addEventListener("push", (/** @type {any} */ event) => {
  /** @type {Notice} */
  const { title, body, url, tag } = event.data.json();
  event.waitUntil(worker.registration.showNotification(title, { body, tag, data: { url } }));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  const url = new URL(event.notification.data.url);
  // the site may be reached under another name than its public one
  event.waitUntil(worker.clients.openWindow(url.pathname + url.hash));
});
