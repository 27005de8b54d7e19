import type { Container, Network } from "dockerode";
import { isRecord } from "../../src/lib/record.ts";
import { until } from "../support/until.ts";

/** Acts again for as long as the daemon refuses for a reason that passes. Any other error ends it at once. */
async function patiently(
  what: string,
  act: () => Promise<unknown>,
  isPassing: (error: unknown) => boolean,
): Promise<void> {
  const { tried } = await until(what, async () => {
    const attempt = act();
    try {
      await attempt;
    } catch (error) {
      // `until` looks again after an error.
      if (isPassing(error)) throw error;
    }
    return { tried: attempt };
  });
  await tried;
}

function says(error: unknown, words: string | RegExp): boolean {
  return error instanceof Error && error.message.search(words) !== -1;
}

/** Pauses a container. Beside much other work runc can fail to freeze it, and has then thawed it: then once more. */
export async function pause(container: Container): Promise<void> {
  await patiently(
    "it is paused",
    async () => await container.pause(),
    (error) => says(error, "unable to freeze"),
  );
}

/**
 * What a daemon says while something else still ends or removes the same: Podman of a container that is just ending,
 * Docker of one that is being removed, and of a network whose last container is just leaving.
 */
const endingWords = /container state improper|removal of container .* is already in progress|has active endpoints/;

/** Removes a container or a network of the test's own, which may be gone already. */
export async function removed(thing: Container | Network): Promise<void> {
  await patiently(
    "it is removed",
    async () => {
      try {
        // A network knows neither option.
        await thing.remove({ force: true, v: true });
      } catch (error) {
        if (!isRecord(error) || error["statusCode"] !== 404) throw error;
      }
    },
    (error) => says(error, endingWords),
  );
}
