import { X } from "lucide";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icon.tsx";

interface DrawerProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
  /** Stands in the middle of the page instead of at its edge, and stays when a person clicks beside it: forms are filled in here. */
  readonly isDialog?: boolean;
  /** Shows something once: nothing but its own content closes it. */
  readonly isKept?: boolean;
}

/** Something of the page in detail, over it; the focus returns to where it was. */
export function Drawer({ title, children, onClose, isDialog = false, isKept = false }: DrawerProps): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    // Closed before it leaves the page: so the browser returns the focus to where it was.
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={isDialog ? "sheet" : "sheet drawer"}
      aria-label={title}
      closedby={isKept ? "none" : isDialog ? "closerequest" : "any"}
      // Browsers that do not know `closedby` close a dialog by Escape alone.
      onCancel={(event) => isKept && event.preventDefault()}
      onClose={onClose}
    >
      <div class="chart-head">
        <h2>{title}</h2>
        {!isKept && (
          <button type="button" class="ghost icon" aria-label="Close" onClick={() => box.current?.close()}>
            <Icon of={X} />
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}
