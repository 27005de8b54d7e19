const unloadedByHand = "unloaded by request";

/** The message of a slot that a person has unloaded, with who and when. */
export function unloadedMessage({
  requestedAt,
  requestedBy,
}: {
  readonly requestedAt: string;
  readonly requestedBy?: string | undefined;
}): string {
  return `${unloadedByHand}${requestedBy === undefined ? "" : ` of ${requestedBy}`} at ${requestedAt}`;
}

/**
 * Whether a condition or a transition says that a person has unloaded the slot. An on-demand slot keeps its reason
 * `ScaledToZero`, since the next request loads it; its message tells the two apart.
 */
export function isUnloadedByHand({ reason, message }: { readonly reason: string; readonly message: string }): boolean {
  return reason === "Unloaded" || (reason === "ScaledToZero" && message.startsWith(unloadedByHand));
}
