export { default as hljs } from "highlight.js/lib/core";
