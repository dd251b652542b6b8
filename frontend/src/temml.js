// TeX as MathML, which browsers draw themselves. Loaded when a reply holds mathematics.
import temml from "temml";

export { temml };
