// What page/vendor/preact.js offers: Preact, its hooks and htm bound to it.
import htm from "htm";
import { h } from "preact";

export { Component, Fragment, createContext, createRef, h, render } from "preact";
export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "preact/hooks";
export const html = htm.bind(h);
