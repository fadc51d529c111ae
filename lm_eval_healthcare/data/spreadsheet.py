"""Rows of a spreadsheet (.xlsx): the first row that is not empty names the columns."""

from __future__ import annotations

import contextlib
import zipfile
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from lm_eval_healthcare.data.files import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


def read_spreadsheet(path: Path, sheet: str | None, texts: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a sheet with its place.

    Args:
        path: The file.
        sheet: The sheet's name; the first if None.
        texts: Columns whose cells are texts: a number or date there is what a spreadsheet makes of a text such as "5".

    Raises:
        DataError: If openpyxl is not installed, the file is not a spreadsheet, the sheet is not there, or two columns
            have the same name.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise DataError(
            f"{path}: spreadsheets need openpyxl: pip install 'lm_eval_healthcare[data]'; or save the sheet as CSV"
        ) from error
    broken = (OSError, KeyError, ValueError, TypeError, ParseError, zipfile.BadZipFile, InvalidFileException)
    try:
        with contextlib.closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
            if sheet is not None and sheet not in book.sheetnames:
                raise DataError(f"--sheet {sheet}: {path} has the sheets {', '.join(book.sheetnames)}")
            page = book[sheet] if sheet else book.worksheets[0]
            page.reset_dimensions()  # some programs write a wrong size, which would cut rows off
            yield from _rows(page.iter_rows(values_only=True), f"{path.name}, sheet {page.title}", texts)
    except DataError:
        raise
    except broken as error:
        raise DataError(f"{path}: not readable as an .xlsx spreadsheet ({type(error).__name__}: {error})") from error


def _rows(rows: Iterator[tuple[Any, ...]], place: str, texts: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    header: list[str | None] = []
    for number, cells in enumerate(rows, start=1):
        if all(cell is None or str(cell).strip() == "" for cell in cells):
            continue
        if not header:
            header = [None if cell is None else str(cell).strip() for cell in cells]
            named = [name for name in header if name]
            if len(set(named)) < len(named):
                raise DataError(f"{place}, row {number}: the first row must name the columns, each once: {named}")
            continue
        filled = [*cells, *[None] * (len(header) - len(cells))]
        pairs = zip(header, filled, strict=False)
        yield f"{place}, row {number}", {name: _cell(cell, name in texts) for name, cell in pairs if name}


def _cell(value: Any, is_text: bool) -> Any:
    if value is None or value == "":
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if is_text and not isinstance(value, str):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return value
