import { createHash } from "node:crypto";
import { join } from "node:path";

/**
 * The directory of an owner's conversations: gateways write them, and the store deletes them with the owner's token. An
 * owner's name may hold every character.
 */
export function conversationDirectory(stateDir: string, owner: string): string {
  const name = createHash("sha256").update(owner).digest("hex").slice(0, 32);
  return join(stateDir, "conversations", name);
}
