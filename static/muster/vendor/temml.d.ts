export * as temml from "temml";
