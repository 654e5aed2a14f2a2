import type { VNode } from "preact";

export { Component, Fragment, createContext, createRef, h, render } from "preact";
export * from "preact/hooks";
export const html: (strings: TemplateStringsArray, ...values: any[]) => VNode;
