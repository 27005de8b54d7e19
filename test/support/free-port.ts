import { freePorts } from "./ports.ts";

/** A port on loopback on which nobody listens now, and which no other test uses. */
export async function freePort(): Promise<number> {
  return (await freePorts(1)).first;
}
