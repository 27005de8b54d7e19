import type { SlotRequest } from "../api/status.ts";
import { at, isFromAhead } from "./input.ts";
import type { World } from "./world.ts";

/**
 * What is asked of a slot. A request from the future counts from now on: else it would be newer than every start until
 * its time comes, and restart or unload the slot over and over.
 */
export async function askedOf(
  world: Pick<World, "requests" | "clock">,
  slot: string,
  isPaused = false,
): Promise<readonly SlotRequest[]> {
  const now = world.clock.now();
  return await Promise.all(
    world.requests.list(slot).map(async (request) => {
      if (!isFromAhead(at(request.requestedAt), now)) return request;
      const present = { ...request, requestedAt: now.toISOString() };
      // An operator that is paused leaves it to the one that will obey it.
      if (!isPaused) await world.requests.put(present);
      return present;
    }),
  );
}
