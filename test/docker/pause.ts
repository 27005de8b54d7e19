import type { Container } from "dockerode";
import { until } from "../support/until.ts";

/** Pauses a container. Beside much other work runc can fail to freeze it, and has then thawed it: then once more. */
export async function pause(container: Container): Promise<void> {
  await until("it is paused", async () => {
    try {
      await container.pause();
      return true;
    } catch (error) {
      if (error instanceof Error && error.message.includes("unable to freeze")) return false;
      throw error;
    }
  });
}
