import { useState } from "preact/hooks";

/**
 * A value that the address of the page keeps by this name, so that a link or a reload leads to it. An empty value is none.
 * The history gets no entry for it.
 */
export function useQuery(name: string): readonly [string, (value: string) => void] {
  const [value, setValue] = useState(() => new URLSearchParams(location.search).get(name) ?? "");
  const set = (next: string): void => {
    const query = new URLSearchParams(location.search);
    if (next === "") query.delete(name);
    else query.set(name, next);
    history.replaceState(history.state, "", location.pathname + (query.size === 0 ? "" : `?${query.toString()}`));
    setValue(next);
  };
  return [value, set];
}
