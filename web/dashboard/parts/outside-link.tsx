import type { ComponentChildren, JSX } from "preact";

/** A link to a page of the web that a catalogue or a server names; text alone where the address is none of the web. */
export function OutsideLink({
  href,
  children,
}: {
  readonly href: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  if (!/^https?:\/\//i.test(href)) return <>{children}</>;
  return (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}
