SELECT count(*) FROM ONLY /* partition */
