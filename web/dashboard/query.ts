import { signal } from "@preact/signals";

/** The query of the address, as the router and the page have set it. */
export const addressQuery = signal(location.search);

/**
 * A value that the address keeps by this name, so that a link or a reload leads to it. An empty value is none. The history
 * gets no entry for it.
 */
export function useQuery(name: string): readonly [string, (value: string) => void] {
  const set = (value: string): void => {
    const next = new URLSearchParams(addressQuery.value);
    if (value === "") next.delete(name);
    else next.set(name, value);
    addressQuery.value = next.size === 0 ? "" : `?${next.toString()}`;
    history.replaceState(history.state, "", location.pathname + addressQuery.value);
  };
  return [new URLSearchParams(addressQuery.value).get(name) ?? "", set];
}
