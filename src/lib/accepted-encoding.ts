/**
 * Whether a client takes a content coding, by its `accept-encoding` (RFC 9110, section 12.5.3): named with a weight above
 * zero, or covered by `*` and not named. Without the header: false, because plain bytes suit every client.
 */
export function isAccepted(coding: string, header: string | undefined): boolean {
  let byStar = false;
  for (const part of (header ?? "").toLowerCase().split(",")) {
    const [name = "", ...parameters] = part.split(";").map((each) => each.trim());
    const weight = parameters.find((each) => each.startsWith("q="))?.slice(2);
    const isWanted = weight === undefined || Number(weight) > 0;
    if (name === coding) return isWanted;
    if (name === "*") byStar = isWanted;
  }
  return byStar;
}
