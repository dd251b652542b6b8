// The form of a new chain, or of a copy.
import { creation } from "./creation.js";

creation("chains", document.getElementById("new-chain"));
