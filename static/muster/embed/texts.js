// The words of the chat. It uses no catalogue, because the pages of other sites load it.

/** @type {Record<string, string>} */
const ENGLISH = {
  open: "Open the chat",
  close: "Close the chat",
  placeholder: "Write a message",
  send: "Send",
  stop: "Stop",
  retry: "Try again",
  restart: "New conversation",
  thinking: "Thinking",
  working: "Working on it",
  waiting: "Waiting for somebody to approve",
  stopped: "Stopped.",
  failed: "The message could not be sent.",
  away: "The chat does not answer at the moment.",
  you: "You",
  log: "Conversation",
};
/** @type {Record<string, string>} */
const GERMAN = {
  open: "Chat öffnen",
  close: "Chat schließen",
  placeholder: "Nachricht schreiben",
  send: "Senden",
  stop: "Anhalten",
  retry: "Noch einmal versuchen",
  restart: "Neue Unterhaltung",
  thinking: "Denkt nach",
  working: "In Arbeit",
  waiting: "Wartet auf eine Freigabe",
  stopped: "Angehalten.",
  failed: "Die Nachricht konnte nicht gesendet werden.",
  away: "Der Chat antwortet gerade nicht.",
  you: "Sie",
  log: "Unterhaltung",
};

/**
 * Each word in the language of the page; an attribute of the script replaces one: data-text-send="OK".
 * @param {Record<string, string | undefined>} options the attributes of the script
 * @param {string} language of the page, such as de-AT
 * @returns {Record<string, string>}
 */
export function texts(options, language) {
  const isGerman = language.toLowerCase().split("-")[0] === "de";
  const words = { ...(isGerman ? GERMAN : ENGLISH) };
  for (const name of Object.keys(words)) {
    const option = `text${name[0].toUpperCase()}${name.slice(1)}`; // a dataset has data-text-send as textSend
    words[name] = options[option] ?? words[name];
  }
  return words;
}
