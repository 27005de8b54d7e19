import { byName } from "./slot-order.ts";

/** So many slots have a colour of their own on maps and charts. */
const colours = 8;

/** Greys, which no slot has. */
const providerColours = 3;

/** The name of a slot's colour, by its place in the order of the names; undefined: a slot that is not known. */
export function slotColour(nth: number | undefined): string {
  return nth !== undefined && nth < colours ? `slot-${nth}` : "slot-other";
}

export function providerColour(nth: number): string {
  return `provider-${nth % providerColours}`;
}

/** The place of each slot in the order of the names: it stays the same while slots come to life and go. */
export function placesOf(names: Iterable<string>): ReadonlyMap<string, number> {
  return new Map([...names].toSorted((one, other) => byName.compare(one, other)).map((name, nth) => [name, nth]));
}
